"""Each refusal of a plan is raised under the surface of the form, too."""

from support.form_surface import errors_can_be_shown_in_forms

__all__ = ["errors_can_be_shown_in_forms"]
