package model

// KindInfo names a kind of resource in files, paths and on the command line.
type KindInfo struct {
	Name       string // in a file: Check
	Plural     string // in the API's paths: checks
	Short      string // typed: ch
	Namespaced bool
}
