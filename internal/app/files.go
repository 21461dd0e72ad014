package app

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// fileWatch compares the files of the data folder with those that the server opened: it writes to a file that was deleted or
// replaced until it ends, and what it wrote is gone then. The zero value watches no file.
type fileWatch struct {
	mu      sync.Mutex
	opened  []openedFile
	missing func() []string // paths of further files that are gone; nil: none
}

// openedFile is a file as it was when the server opened it.
type openedFile struct {
	path string
	info fs.FileInfo
}

// add watches files that exist now.
func (w *fileWatch) add(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			w.opened = append(w.opened, openedFile{path, info})
		}
	}
}

// addDatabase watches the files of an open SQLite database; a database on a server has none here.
func (w *fileWatch) addDatabase(dsn string) {
	if !strings.Contains(dsn, "://") {
		w.add(dsn, dsn+"-wal")
	}
}

// changed returns a sentence for each file that was deleted or replaced.
func (w *fileWatch) changed() (list []string) {
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
	if w.missing != nil {
		for _, path := range w.missing() {
			list = append(list, describeChange(path, "deleted or moved"))
		}
	}
	return list
}

// describeChange returns the sentence about a file that was deleted or replaced.
func describeChange(path, verb string) string {
	return fmt.Sprintf("%s was %s while the server runs: what the server writes to it is lost when the server stops. "+
		"Move the file back, or stop the server, restore the file from a backup and start again", path, verb)
}
