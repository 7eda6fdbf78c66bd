"""What every level shares: locations, diagnostics, contracts, fingerprints and the rewrite driver."""
