// Package scenarios holds the scenario files that are shipped: `muster load list` shows
// them. docs/load-reference.md says what stands in them.
package scenarios

import "embed"

// Files are NAME.yaml each.
//
//go:embed *.yaml
var Files embed.FS
