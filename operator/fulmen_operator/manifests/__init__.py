"""Every object that the operator makes, one function each. Pure: values in, manifests out."""
