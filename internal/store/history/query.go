package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// boundToPage bounds rows to a time, and to those behind the last row of a page: before a time, or at it with a
// smaller id.
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

func effectiveLimit(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return n
}

func limitClause(n int) string { return fmt.Sprintf(` LIMIT %d`, effectiveLimit(n)) }

// cleanText replaces bytes that PostgreSQL refuses: NUL and broken UTF-8. Both engines store the same.
func cleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
