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

// Reset takes away from a state folder what belongs to the node that the machine was:
// results that wait, the assignment, what is known of the server, and last the identity,
// so that a reset which was cut off is found and can be done again. sure is asked before
// anything is removed, with the identity (nil: none that can be read) and the names of
// what goes. It refuses while an agent runs on the folder.
func Reset(stateDir string, sure func(id *pki.Identity, goes []string) error) error {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return sure(nil, nil)
	}
	held, err := lock(stateDir)
	if err != nil {
		return err
	}
	defer held.Close()
	id, err := pki.LoadIdentity(stateDir)
	if err != nil {
		id = nil // what cannot be read goes all the same
	}
	var goes []string
	for _, name := range []string{spoolFolder, assignmentFile, sessionFile, pki.JoiningFile, pki.IdentityFile} {
		if _, err := os.Lstat(filepath.Join(stateDir, name)); err == nil {
			goes = append(goes, name)
		}
	}
	if err := sure(id, goes); err != nil {
		return err
	}
	for _, name := range goes {
		if err := os.RemoveAll(filepath.Join(stateDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
