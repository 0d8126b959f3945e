"""Authors' values, beyond their bytes.

`copies` compares them, `value_classes` knows what fields their classes had, `unreadable` reads what
no class reads any more. Uses `pickling`.
"""
