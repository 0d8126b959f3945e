"""The `config` of components: values of the environment in it, and its validation by a model.

`${NAME}` is replaced where a component runs, and the author's model (`config_model`) says what is
wrong. Uses `reading` for the words and `code` for the classes; used by `validation`, the builder,
and the engine, where it makes a component's context.
"""
