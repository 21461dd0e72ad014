//go:build !linux || noserver

package doctor

import "context"

// examineDatabases does nothing, because a build without a server has no databases.
func examineDatabases(context.Context, Target) []Finding { return nil }
