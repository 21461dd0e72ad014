//go:build !linux || noserver

package doctor

import "context"

// examineDatabases does nothing: this build has no server, so the machine has no databases to check.
func examineDatabases(context.Context, Target) []Finding { return nil }
