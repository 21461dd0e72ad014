//go:build linux && !noserver

package doctor

import (
	"context"
	"os"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/store/sqldb"
)

// examineDatabases checks the pages of the SQLite files in the data folder for damage. The server may run meanwhile.
func examineDatabases(ctx context.Context, p Target) (out []Finding) {
	for _, name := range []string{"intent.db", "history.db", "compliance.db", "text.db"} {
		path := filepath.Join(p.Data, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := sqldb.Check(ctx, path); err != nil {
			out = append(out, Finding{Bad, name, err.Error(), "undamaged pages",
				"restore the data folder from a backup; or stop the server and keep the readable rows: muster doctor repair --data " + p.Data})
			continue
		}
		out = append(out, Finding{Fine, name, "all pages are undamaged", "", ""})
	}
	return out
}
