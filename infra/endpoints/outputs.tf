output "security_group_id" {
  description = "The security group of the interfaces."
  value       = aws_security_group.this.id
}
