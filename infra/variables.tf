variable "name_prefix" {
  description = "What the tables' names begin with; the functions' TRIAD_TABLE_PREFIX."
  type        = string
  default     = ""
  validation {
    condition     = can(regex("^[a-zA-Z0-9_.-]{0,64}$", var.name_prefix))
    error_message = "Use up to 64 letters, digits, '-', '_' and '.'."
  }
}

variable "deletion_protection" {
  description = "Refuse to delete the tables."
  type        = bool
  default     = true
}
