package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// FileWatch reports files of the data folder that were deleted or replaced while the server runs. The zero value
// watches no file.
type FileWatch struct {
	Missing func() []string // paths of further files that are gone; nil: none. Set before Changed is called

	mu     sync.Mutex
	opened []openedFile
}

// openedFile has a watched file's path, and its file information when the watch began.
type openedFile struct {
	path string
	info fs.FileInfo
}

// Add starts watching the existing files among the given paths. Changed reports later if one of the files was deleted
// or replaced.
func (w *FileWatch) Add(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			w.opened = append(w.opened, openedFile{path, info})
		}
	}
}

// AddDatabase starts watching the files of a SQLite database for deletion or replacement. For a PostgreSQL database it
// does nothing.
func (w *FileWatch) AddDatabase(dsn string) {
	if !strings.Contains(dsn, "://") {
		w.Add(dsn, dsn+"-wal")
	}
}

// Changed returns a sentence for each watched file that was deleted or replaced.
func (w *FileWatch) Changed() (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.opened {
		info, err := os.Stat(f.path)
		verb := "replaced"
		switch {
		case err == nil && os.SameFile(info, f.info):
			continue
		case err != nil:
			verb = "deleted or moved"
		}
		list = append(list, describeChange(f.path, verb))
	}
	if w.Missing != nil {
		for _, path := range w.Missing() {
			list = append(list, describeChange(path, "deleted or moved"))
		}
	}
	return list
}

// describeChange describes the deletion or replacement of a file in one sentence.
func describeChange(path, verb string) string {
	return fmt.Sprintf("%s was %s while the server runs: what the server writes to it is lost when the server stops. "+
		"Move the file back, or stop the server, restore the file from a backup and start again", path, verb)
}
