terraform {
  required_version = ">= 1.11"
  required_providers {
    # 5.100 is what the checks run with. Of 6, tests/infra/provider6.py checks that every argument here exists.
    # Versions differ in what they can say of mappings and URLs: see setup.tf.
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7"
    }
  }
}
