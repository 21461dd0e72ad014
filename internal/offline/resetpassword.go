package offline

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/intent"
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
		Long: `Gives a user a new password and ends the user's sessions; the role stays. It works on the data folder,
whether the server runs or not: whoever may write there may do it; root does it as the user whom the folder
belongs to. It makes no users: see muster auth user.`,
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
				return datadir.Explain(err, cfg.Data)
			}
			if password == "" {
				fmt.Fprintf(cmd.OutOrStdout(), "user %s, password %s (shown once)\n", user, made)
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "user %s has the password from %s\n", user, file)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Sessions of before have ended: muster login")
			return nil
		},
	}
	config.Flags(c.Flags(), "data", "intent-db")
	c.Flags().StringVar(&user, "user", "admin", "whose password")
	c.Flags().StringVar(&file, "password-file", "", "file with the new password, - for standard input; default: one is made and shown")
	c.Flags().BoolVar(&mayRun, "may-run-commands", false, "the user may run commands from now on: muster run --command")
	return c
}

// ReadPassword reads a password from a file; - is standard input.
func ReadPassword(file string, stdin io.Reader) (string, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, 4096))
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return "", model.Errorf(model.Invalid, "password file: %w", err)
	}
	password := strings.TrimSpace(string(data))
	if password == "" {
		return "", model.Errorf(model.Invalid, "password file %s is empty", file).WithHint("write the password into it, or leave the flag out: then one is made and shown")
	}
	return password, nil
}

// ResetPassword sets a password in a data folder. It writes into the store of a stopped server; a
// running server owns its store, so it gets a request file.
func ResetPassword(ctx context.Context, cfg *config.Server, user, password string, mayRun bool) (string, error) {
	held, err := datadir.LockStopped(cfg.Data)
	if model.ClassOf(err) == model.Conflict {
		return askForPassword(ctx, cfg.Data, user, password, mayRun)
	}
	if err != nil {
		return "", err
	}
	defer held.Close()
	dsn := cfg.IntentDB
	if dsn == "" {
		dsn = filepath.Join(cfg.Data, "intent.db")
		if _, err := os.Stat(dsn); err != nil {
			return "", model.Errorf(model.NotFound, "%s is no data folder of a server: %w", cfg.Data, err).WithHint("name it with --data DIR")
		}
	}
	store, err := intentdb.Open(ctx, dsn, time.Now)
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
	return password, service.ResetPassword(ctx, resetBy(), user, hash, mayRun)
}

func resetBy() intent.Actor {
	return intent.Actor{User: "local", Whence: "local", Why: "muster auth reset-password"}
}
