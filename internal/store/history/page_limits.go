package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// boundToPage adds SQL conditions that limit a query to a time range and one page of rows. The rows are since a time
// and after the previous page's last row.
func boundToPage(w *sqldb.Where, at, id string, since, before time.Time, beforeID any) {
	if !since.IsZero() {
		w.And(at+` >= ?`, sqldb.Nanos(since))
	}
	if !before.IsZero() {
		until := sqldb.Nanos(before)
		w.And(at+` <= ? AND (`+at+` < ? OR `+id+` < ?)`, until, until, beforeID)
	}
}

// defaultLimit bounds lists whose query names no limit.
const defaultLimit = 1000

// effectiveLimit returns the requested number of rows, or defaultLimit if the request has none.
func effectiveLimit(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return n
}

// limitClause returns the SQL LIMIT clause for a number of rows.
func limitClause(n int) string { return fmt.Sprintf(` LIMIT %d`, effectiveLimit(n)) }

// cleanText replaces NUL and invalid UTF-8 in a text, because PostgreSQL refuses such bytes. SQLite gets the same
// text.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
