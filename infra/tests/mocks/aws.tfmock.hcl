# What AWS would answer. Values have the form that the provider checks; none is a real one.

mock_data "aws_partition" {
  defaults = {
    partition = "aws"
  }
}

mock_data "aws_region" {
  defaults = {
    id = "eu-west-1"
  }
}

mock_data "aws_caller_identity" {
  defaults = {
    account_id = "111122223333"
  }
}

mock_resource "aws_kms_key" {
  defaults = {
    arn    = "arn:aws:kms:eu-west-1:111122223333:key/00000000-0000-0000-0000-00000000made"
    key_id = "00000000-0000-0000-0000-00000000made"
  }
}

mock_resource "aws_iam_role" {
  defaults = {
    arn = "arn:aws:iam::111122223333:role/mocked"
  }
}

mock_resource "aws_lambda_function" {
  defaults = {
    arn = "arn:aws:lambda:eu-west-1:111122223333:function:mocked"
  }
}

mock_resource "aws_sns_topic" {
  defaults = {
    arn = "arn:aws:sns:eu-west-1:111122223333:mocked"
  }
}

mock_resource "aws_lambda_event_source_mapping" {
  defaults = {
    uuid = "00000000-0000-0000-0000-000000000000"
  }
}
