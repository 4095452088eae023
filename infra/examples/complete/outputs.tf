output "triad" {
  description = "The installation, for `triad --from-terraform`."
  value       = module.triad.triad
}

output "kms_key_arn" {
  description = "The customer key."
  value       = module.triad.kms_key_arn
}
