package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

// Files of the state folder, beside those of pki (identity) and the spool's folder.
const (
	lockFile       = "lock"
	assignmentFile = "assignment" // a wire.Assignment frame, whole, with its signature
	sessionFile    = "session.json"
	spoolFolder    = "spool"
)

// session is what is remembered of the last one.
type session struct {
	Incarnation uint64   `json:"incarnation"`
	Servers     []string `json:"servers,omitempty"` // as told then
	Own         []string `json:"own,omitempty"`     // --server, then
}

// lock keeps a second agent out; the system gives it back when the process dies.
func lock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the agent's state folder: %w", err)
	}
	held, err := disk.OS{}.Lock(filepath.Join(dir, lockFile))
	var other *disk.LockedError
	if errors.As(err, &other) {
		return nil, model.Errorf(model.Conflict, "state folder %s is in use by another agent (%s)", dir, other.Holder()).
			WithHint("stop that one (systemctl stop muster-agent), or give this one another folder (--state-dir)")
	}
	return held, err
}

// loadHeld reads the assignment of the last life and verifies it like one from the
// wire. Nil: there is none, or it is not to be trusted (the server sends it again).
func loadHeld(dir string, id *pki.Identity) (*link.Assignment, error) {
	path := filepath.Join(dir, assignmentFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	held, err := decodeHeld(data, id)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return held, nil
}

func decodeHeld(data []byte, id *pki.Identity) (*link.Assignment, error) {
	kind, body, err := wire.FrameKind(data)
	if err != nil {
		return nil, err
	}
	if kind != wire.KindAssignment {
		return nil, fmt.Errorf("frame of kind %d", kind)
	}
	var a wire.Assignment
	if err := a.Decode(body); err != nil {
		return nil, err
	}
	return (*link.Assignment)(nil).Apply(&a, id.Node, id.ServerKey, wire.DecodeChunk)
}

func saveHeld(dir string, held *link.Assignment) error {
	return disk.WriteFile(disk.OS{}, dir, assignmentFile, wire.AppendAssignment(nil, held.Message()))
}

// loadSession reads what the last session left. Where it cannot be read, there is
// nothing in it that the next session does not say again.
func loadSession(dir string) session {
	data, err := os.ReadFile(filepath.Join(dir, sessionFile))
	if err != nil {
		return session{}
	}
	return decodeSession(data)
}

func decodeSession(data []byte) (s session) {
	if json.Unmarshal(data, &s) != nil {
		return session{}
	}
	return s
}

func saveSession(dir string, s session) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return disk.WriteFile(disk.OS{}, dir, sessionFile, data)
}
