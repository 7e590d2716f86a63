"""Scripts for those who change the project. Rule: the package never imports them; what a user needs lives in the package."""
