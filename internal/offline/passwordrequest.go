package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

// passwordRequest is the request file for a running server. It holds the hash that the store keeps,
// not the password.
type passwordRequest struct {
	User string `json:"user"`
	Hash string `json:"hash"`
	Run  bool   `json:"run,omitempty"` // the user may run commands from now on
}

const (
	passwordRequestFile = "reset-password.json"
	passwordRefusedFile = "reset-password.refused.json" // the server's refusal, in place of the request
	passwordTick        = time.Second
	passwordPatience    = 15 * time.Second // a running server handles a request within passwordTick
)

// askForPassword leaves a request in the folder and waits for the server's answer.
func askForPassword(ctx context.Context, data, user, password string, mayRun bool) (string, error) {
	password, hash, err := access.HashPassword(password)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(passwordRequest{user, hash, mayRun})
	if err != nil {
		return "", err
	}
	path, refused := filepath.Join(data, passwordRequestFile), filepath.Join(data, passwordRefusedFile)
	defer os.Remove(path)
	if err := os.Remove(refused); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	defer os.Remove(refused)
	if err := disk.WriteFile(disk.OS{}, data, passwordRequestFile, body); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, passwordPatience)
	defer cancel()
	tick := time.NewTicker(passwordTick / 10)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return password, refusal(refused)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", model.Errorf(model.Unavailable, "the server that runs on %s did not take the new password", data).
				WithHint("its log says why; or stop it and type this again")
		}
	}
}

// refusal returns the server's reason for refusing a request; nil: accepted.
func refusal(path string) error {
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	said := &model.Error{}
	if err == nil {
		err = json.Unmarshal(body, said)
	}
	if err != nil {
		return fmt.Errorf("read why the server refused: %w", err)
	}
	return said
}

// PasswordRequests handles the requests that `muster auth reset-password` leaves in the data folder
// of a running server.
type PasswordRequests struct {
	Data   string // folder
	Access *access.Service
	Log    *slog.Logger
}

// Run looks for a request each second until ctx ends.
func (p *PasswordRequests) Run(ctx context.Context) error {
	tick := time.NewTicker(passwordTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := p.apply(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error("password was not reset", "err", err)
		}
	}
}

func (p *PasswordRequests) apply(ctx context.Context) error {
	path := filepath.Join(p.Data, passwordRequestFile)
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var r passwordRequest
	if err := json.Unmarshal(body, &r); err != nil || r.User == "" || r.Hash == "" {
		return errors.Join(fmt.Errorf("%s is no request of ours: %w", path, err), os.Remove(path))
	}
	err = p.Access.ResetPassword(ctx, resetBy(), r.User, r.Hash, r.Run)
	if said := (*model.Error)(nil); errors.As(err, &said) && (said.Class == model.NotFound || said.Class == model.Invalid) {
		if body, err = json.Marshal(model.Error{Class: said.Class, Message: said.Message, Hint: said.Hint}); err == nil {
			err = disk.WriteFile(disk.OS{}, p.Data, passwordRefusedFile, body)
		}
		p.Log.Warn("password was not reset", "user", r.User, "why", said.Message)
		return errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return err // retried until the caller gives up
	}
	p.Log.Warn("password was reset from the data folder", "user", r.User)
	return os.Remove(path)
}
