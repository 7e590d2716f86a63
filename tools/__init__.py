"""Small scripts of the project. Rule: the standard library and pykafka4's public leaves only; what a user needs lives in the package."""
