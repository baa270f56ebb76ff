"""What model adapters of Hookwork share: stream aggregation, response and schema conversion, errors and retries."""
