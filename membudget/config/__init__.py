"""Configuration: validated models and the strict reader of YAML files."""
