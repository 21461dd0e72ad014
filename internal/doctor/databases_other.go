//go:build !linux || noserver

package doctor

import "context"

// examineDatabases finds nothing: this build has no server, so the machine has no databases.
func examineDatabases(context.Context, Target) []Finding { return nil }
