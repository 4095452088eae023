# VPC endpoints for functions in private subnets without a NAT gateway: gateways for DynamoDB and S3, which cost nothing, and
# interfaces for the services that the installation calls, which cost by the hour and zone.

data "aws_region" "current" {}

resource "aws_vpc_endpoint" "gateway" {
  for_each          = toset(["dynamodb", "s3"])
  vpc_id            = var.vpc_id
  service_name      = "com.amazonaws.${data.aws_region.current.id}.${each.key}"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = var.route_table_ids
  tags              = merge(var.tags, { Name = "${var.name_prefix}${each.key}" })
}

resource "aws_vpc_endpoint" "interface" {
  for_each            = var.interfaces
  vpc_id              = var.vpc_id
  service_name        = "com.amazonaws.${data.aws_region.current.id}.${each.key}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = var.subnet_ids
  security_group_ids  = [aws_security_group.this.id]
  tags                = merge(var.tags, { Name = "${var.name_prefix}${each.key}" })
}

# Who may reach the interfaces. They answer, and open no connection by themselves.
resource "aws_security_group" "this" {
  #checkov:skip=CKV2_AWS_5: the interfaces above have it, where there are any
  name        = "${var.name_prefix}endpoints"
  description = "VPC endpoints of Triad: HTTPS from its functions and the brokers' network"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "https" {
  for_each                     = toset(var.client_security_group_ids)
  security_group_id            = aws_security_group.this.id
  description                  = "HTTPS"
  referenced_security_group_id = each.key
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
  tags                         = var.tags
}
