package history

import (
	"context"
	"errors"
	"strings"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// OpenSmall opens a store whose segments hold so many rows.
func OpenSmall(ctx context.Context, dsn string, segment int64) (Store, error) {
	return open(ctx, dsn, segment)
}

// CopySchema4 makes a database as an older Muster left it, of all that the one at from holds.
func CopySchema4(ctx context.Context, from, to string) error {
	source, err := sqldb.Open(ctx, from, "history")
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := sqldb.Open(ctx, to, "history")
	if err != nil {
		return err
	}
	defer target.Close()
	if err := target.Migrate(ctx, schema()[:4]); err != nil {
		return err
	}
	return target.Write(ctx, func(tx *sqldb.Tx) error {
		for _, table := range []string{"entries", "problems", "outbox", "places", "escalations", "told"} {
			if err := copyTable(ctx, source, tx, "history_"+table); err != nil {
				return err
			}
		}
		return nil
	})
}

func copyTable(ctx context.Context, source *sqldb.DB, tx *sqldb.Tx, table string) error {
	rows, err := source.Query(ctx, `SELECT * FROM `+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return errors.New(table + " has no columns")
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`) VALUES (`+places(len(columns))+`)`, values...); err != nil {
			return err
		}
	}
	return rows.Err()
}
