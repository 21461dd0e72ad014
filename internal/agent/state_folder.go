package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Files of the state folder; pki has the identity there, too.
const (
	lockFile       = "lock"
	assignmentFile = "assignment" // frames of wire.Assignment, with its signature
	sessionFile    = "session.json"
	oneShotFile    = "oneshots.json" // runs of one-shot directives
	spoolFolder    = "spool"
)

// savedSession has the data of the last session that the agent reads at its next start. The agent keeps them on
// disk.
type savedSession struct {
	Incarnation       uint64   `json:"incarnation"`
	Servers           []string `json:"servers,omitempty"`           // of its Welcome
	ConfiguredServers []string `json:"configuredServers,omitempty"` // --server at that time
}

// lockStateFolder locks the state folder against a second agent. The kernel releases the lock when the process ends.
func lockStateFolder(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the agent's state folder: %w", err)
	}
	file, err := disk.OS{}.Lock(filepath.Join(dir, lockFile))
	var other *disk.LockedError
	if errors.As(err, &other) {
		return nil, model.Errorf(model.Conflict, "state folder %s is in use by another agent (%s)", dir, other.Holder()).
			WithHint("stop that agent (systemctl stop muster-agent), or use another folder: --state-dir")
	}
	return file, err
}

// loadAssignment loads the stored assignment (list of checks) at the agent's start, and verifies its signature. It
// returns nil where there is none or it cannot be verified; the server sends it again.
func loadAssignment(dir string, id *pki.Identity, decode link.DecodeDefinition) (*link.Assignment, error) {
	path := filepath.Join(dir, assignmentFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a, err := decodeAssignment(data, id, decode)
	if err != nil {
		return nil, fmt.Errorf("read the stored assignment %s: %w", path, err)
	}
	return a, nil
}

// decodeAssignment decodes the stored assignment from a sequence of protocol messages (frames).
func decodeAssignment(data []byte, id *pki.Identity, decode link.DecodeDefinition) (*link.Assignment, error) {
	var parts wire.PartialAssignment
	for {
		frame, rest, err := wire.SplitFrame(data)
		if err != nil {
			return nil, err
		}
		kind, body, err := wire.FrameKind(frame)
		if err != nil {
			return nil, err
		}
		if kind != wire.KindAssignment {
			return nil, fmt.Errorf("the stored assignment has a frame of kind %d, expected an assignment frame (kind %d)", kind, wire.KindAssignment)
		}
		var a wire.Assignment
		if err := a.Decode(body); err != nil {
			return nil, err
		}
		if whole := parts.Join(&a); whole != nil {
			return (*link.Assignment)(nil).Apply(whole, id.Node, id.ServerKey, decode)
		}
		data = rest
	}
}

// encodeAssignment encodes an assignment as a sequence of protocol messages (frames).
func encodeAssignment(a *link.Assignment) (data []byte) {
	for _, part := range a.Message().Parts() {
		data = wire.AppendAssignment(data, part)
	}
	return data
}

// loadSavedSession reads the stored data of the last session. If the file is missing or unreadable, the data are
// empty.
func loadSavedSession(dir string) savedSession {
	data, err := os.ReadFile(filepath.Join(dir, sessionFile))
	if err != nil {
		return savedSession{}
	}
	return decodeSavedSession(data)
}

// decodeSavedSession decodes the stored data of the last session. If they are invalid, the result is empty.
func decodeSavedSession(data []byte) (s savedSession) {
	if json.Unmarshal(data, &s) != nil {
		return savedSession{}
	}
	return s
}

// storeSavedSession writes the data of the last session to the state folder.
func storeSavedSession(dir string, s savedSession) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return disk.WriteFile(disk.OS{}, dir, sessionFile, data)
}

// Reset removes all data of a node from a state folder. It removes the spool, the assignment, the saved session and,
// last, the identity, so that an interrupted reset can be repeated. confirm is called before anything is removed, with
// the identity (nil: none that can be read) and the names to remove; its error ends the reset. Reset refuses while an
// agent runs on the folder.
func Reset(stateDir string, confirm func(id *pki.Identity, names []string) error) error {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return confirm(nil, nil)
	}
	folder, err := lockStateFolder(stateDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	id, err := pki.LoadIdentity(stateDir)
	if err != nil {
		id = nil // a damaged identity is removed, too
	}
	var names []string
	for _, name := range []string{spoolFolder, assignmentFile, sessionFile, oneShotFile, pki.JoiningFile, pki.IdentityFile} {
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

// errorOnOneLine returns the text of an error without line breaks.
func errorOnOneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
