package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/pki"
)

// Reset removes from a state folder all that belongs to its node: spool, assignment, memory of the
// server and, last, the identity, so that an interrupted reset can be repeated. confirm is called
// before anything is removed, with the identity (nil: none that can be read) and the names to
// remove; its error ends the reset. Reset refuses while an agent runs on the folder.
func Reset(stateDir string, confirm func(id *pki.Identity, names []string) error) error {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return confirm(nil, nil)
	}
	folder, err := lock(stateDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	id, err := pki.LoadIdentity(stateDir)
	if err != nil {
		id = nil // a damaged identity is removed, too
	}
	var names []string
	for _, name := range []string{spoolFolder, assignmentFile, sessionFile, pki.JoiningFile, pki.IdentityFile} {
		if _, err := os.Lstat(filepath.Join(stateDir, name)); err == nil {
			names = append(names, name)
		}
	}
	if err := confirm(id, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(stateDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
