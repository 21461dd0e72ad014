package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/intentdb"
)

// ResetPasswordCommand returns the command `muster auth reset-password`.
func ResetPasswordCommand() *cobra.Command {
	var user, file string
	var mayRun bool
	c := &cobra.Command{
		Use:   "reset-password --data DIR",
		Short: "Give a user a new password, on the server's machine",
		Long: `Give a user a new password and end the user's sessions; the role stays. The command works on the data
folder, also while the server runs. It needs write access to the folder; root uses the rights of the owner
of the folder. It does not create users: see muster auth user.`,
		Example: "  muster auth reset-password --data /var/lib/muster\n  muster auth reset-password --data /var/lib/muster --user ada",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), os.Getenv)
			if err != nil {
				return err
			}
			password := ""
			if file != "" {
				if password, err = ReadPassword(file, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			if err := datadir.BecomeOwner(cfg.Data); err != nil {
				return err
			}
			made, err := ResetPassword(cmd.Context(), cfg, user, password, mayRun)
			if err != nil {
				return datadir.ExplainFileError(err, cfg.Data)
			}
			if password == "" {
				fmt.Fprintf(cmd.OutOrStdout(), "user %s, password %s (shown once)\n", user, made)
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "user %s has the password from %s\n", user, file)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The old sessions ended. Log in: muster login")
			return nil
		},
	}
	config.AddFlags(c.Flags(), "data", "intent-db")
	c.Flags().StringVar(&user, "user", "admin", "name of the user")
	c.Flags().StringVar(&file, "password-file", "", "file with the new password, - for standard input; default: a random password, shown once")
	c.Flags().BoolVar(&mayRun, "may-run-commands", false, "permit the user to run commands: muster run --command")
	return c
}

// ReadPassword reads a new password from a file. The file name - means standard input.
func ReadPassword(file string, stdin io.Reader) (string, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, 4096))
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return "", model.Errorf(model.Invalid, "read the password file: %w", err)
	}
	password := strings.TrimSpace(string(data))
	if password == "" {
		return "", model.Errorf(model.Invalid, "password file %s is empty", file).WithHint("write the password into the file, or leave the flag out for a random password")
	}
	return password, nil
}

// ResetPassword sets a user's password in a data folder. It also works while the server runs. It writes into the store
// of a stopped server; a running server owns its store, so it gets a request file.
func ResetPassword(ctx context.Context, cfg *config.Server, user, password string, mayRun bool) (string, error) {
	held, err := datadir.LockForRepair(cfg.Data)
	if model.ClassOf(err) == model.Conflict {
		return requestPasswordReset(ctx, cfg.Data, user, password, mayRun)
	}
	if err != nil {
		return "", err
	}
	defer held.Close()
	dsn := datadir.IntentDB(cfg)
	if cfg.IntentDB == "" {
		if _, err := os.Stat(dsn); err != nil {
			return "", model.Errorf(model.NotFound, "%s is not the data folder of a server: %w", cfg.Data, err).WithHint("name the data folder: --data DIR")
		}
	}
	store, err := intentdb.Open(ctx, dsn, kind.All(), time.Now)
	if err != nil {
		return "", err
	}
	defer store.Close()
	service := access.NewService(access.Options{Store: store})
	if err := service.Load(ctx); err != nil {
		return "", err
	}
	password, hash, err := access.HashPassword(password)
	if err != nil {
		return "", err
	}
	return password, service.ResetPassword(ctx, resetActor(), user, hash, mayRun)
}

// resetActor returns the author of a password reset, for the audit.
func resetActor() intent.Actor {
	return intent.Actor{User: "local", Address: "local", Message: "muster auth reset-password"}
}

// passwordRequest is the content of a file that asks the running server to reset a user's password. The command
// muster auth reset-password writes it for a running server. It holds the hash that the store keeps, not the
// password.
type passwordRequest struct {
	User string `json:"user"`
	Hash string `json:"hash"`
	Run  bool   `json:"run,omitempty"` // the user may run commands from now on
}

const (
	passwordRequestFile   = "reset-password.json"
	passwordRefusedFile   = "reset-password.refused.json" // the server's refusal, in place of the request
	passwordTick          = time.Second
	passwordAnswerTimeout = 15 * time.Second // a running server handles a request within passwordTick
)

// requestPasswordReset writes the request for a password reset into the data folder. It waits for the running server's
// answer.
func requestPasswordReset(ctx context.Context, data, user, password string, mayRun bool) (string, error) {
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
	ctx, cancel := context.WithTimeout(ctx, passwordAnswerTimeout)
	defer cancel()
	tick := time.NewTicker(passwordTick / 10)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return password, refusalOfRequest(refused)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", model.Errorf(model.Unavailable, "the running server of data folder %s did not accept the new password", data).
				WithHint("read the log of the server; or stop the server and repeat the command")
		}
	}
}

// refusalOfRequest returns the error with which the server refused a password reset, or nil without a refusal.
func refusalOfRequest(path string) error {
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	said := &model.Error{}
	if err == nil {
		err = json.Unmarshal(body, said)
	}
	if err != nil {
		return fmt.Errorf("read the running server's answer: %w", err)
	}
	return said
}

// PasswordRequests applies password resets in the data folder of a running server. The command muster auth
// reset-password requests a reset.
type PasswordRequests struct {
	Data   string // folder
	Access *access.Service
	Log    *slog.Logger
}

// Run looks for requested password resets each second, and applies the resets, until ctx ends.
func (p *PasswordRequests) Run(ctx context.Context) error {
	tick := time.NewTicker(passwordTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := p.applyRequest(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error("cannot reset a password", "err", err)
		}
	}
}

// applyRequest performs a password reset that a file in the data folder requests, and writes the answer. Without a
// request it does nothing.
func (p *PasswordRequests) applyRequest(ctx context.Context) error {
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
		return errors.Join(fmt.Errorf("%s is not a request to reset a password: %w", path, err), os.Remove(path))
	}
	err = p.Access.ResetPassword(ctx, resetActor(), r.User, r.Hash, r.Run)
	if said := (*model.Error)(nil); errors.As(err, &said) && (said.Class == model.NotFound || said.Class == model.Invalid) {
		if body, err = json.Marshal(model.Error{Class: said.Class, Message: said.Message, Hint: said.Hint}); err == nil {
			err = disk.WriteFile(disk.OS{}, p.Data, passwordRefusedFile, body)
		}
		p.Log.Warn("refused to reset a password", "user", r.User, "why", said.Message)
		return errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return err // retried until the caller gives up
	}
	p.Log.Warn("password was reset from the data folder", "user", r.User)
	return os.Remove(path)
}
