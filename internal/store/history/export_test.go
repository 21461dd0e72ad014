package history

import "context"

// OpenSmall opens a store whose segments hold so many rows.
func OpenSmall(ctx context.Context, dsn string, segment int64) (Store, error) {
	return open(ctx, dsn, segment)
}

// Schema has one step for each version of the tables.
func Schema() []string { return schema }
