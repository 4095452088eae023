# The submodule for VPC endpoints.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  vpc_id                    = "vpc-0a"
  subnet_ids                = ["subnet-0a", "subnet-0b"]
  route_table_ids           = ["rtb-0a"]
  client_security_group_ids = ["sg-0a", "sg-0b"]
}

run "a_way_out_for_functions_without_a_nat_gateway" {
  command = plan
  module {
    source = "./endpoints"
  }
  assert {
    condition = { for service, endpoint in aws_vpc_endpoint.gateway : endpoint.service_name => endpoint.vpc_endpoint_type } == {
      "com.amazonaws.eu-west-1.dynamodb" = "Gateway"
      "com.amazonaws.eu-west-1.s3"       = "Gateway"
    } && alltrue([for endpoint in aws_vpc_endpoint.gateway : endpoint.route_table_ids == toset(["rtb-0a"])])
    error_message = "gateways for tables and kept records"
  }
  assert {
    condition = keys(aws_vpc_endpoint.interface) == ["lambda", "monitoring", "scheduler", "secretsmanager", "sns"] && alltrue([
      for endpoint in aws_vpc_endpoint.interface : endpoint.private_dns_enabled && endpoint.subnet_ids == toset(["subnet-0a", "subnet-0b"])
    ])
    error_message = "interfaces for what functions and the doctor call, and none for KMS, which no code calls"
  }
  assert {
    condition = {
      for client, rule in aws_vpc_security_group_ingress_rule.https : client => "${rule.ip_protocol} ${rule.from_port}-${rule.to_port}"
    } == { sg-0a = "tcp 443-443", sg-0b = "tcp 443-443" }
    error_message = "HTTPS from the functions' security groups and from nowhere else"
  }
}

run "mappings_in_plain_mode_ask_sts_too" {
  command = plan
  module {
    source = "./endpoints"
  }
  variables {
    interfaces = ["lambda", "secretsmanager", "sns", "sts"]
  }
  assert {
    condition     = aws_vpc_endpoint.interface["sts"].service_name == "com.amazonaws.eu-west-1.sts"
    error_message = "an interface for STS"
  }
}

run "a_service_that_nothing_calls" {
  command = plan
  module {
    source = "./endpoints"
  }
  variables {
    interfaces = ["kms"]
  }
  expect_failures = [var.interfaces]
}
