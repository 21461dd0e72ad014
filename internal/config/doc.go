// Package config is the server's configuration: one struct whose tags hold each
// field's name, default, unit and meaning. The same tags make the flags, read the
// environment and the file, and write docs/reference/configuration.md.
//
// Flags win over the environment (MUSTER_…), that over the file, that over the
// defaults. Unknown keys are errors; all problems are reported at once.
// Start reading at config.go.
package config
