package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// password reads the password of a user from a file, - is standard input, or asks for it.
func (a *app) password(user, file string) (string, error) {
	if file == "" {
		return a.askPassword("Password of "+user+": ", "--password-file")
	}
	password, err := a.passwordFile(file)
	if err == nil && password == "" {
		err = model.Errorf(model.Invalid, "the password is empty").WithHint("look into %s; forgotten? on the server: muster auth reset-password --data DIR", file)
	}
	return password, err
}

func (a *app) passwordFile(file string) (string, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(bufio.NewReader(io.LimitReader(a.Stdin, 4096)))
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return "", model.Errorf(model.Invalid, "read password: %w", err).WithHint("--password-file names a file that holds it, or is - for standard input")
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func (a *app) askPassword(prompt, flag string) (string, error) {
	if a.ReadPassword == nil {
		return "", model.Errorf(model.Invalid, "there is no terminal to ask for the password").WithHint("give it with %s FILE, or - for standard input", flag)
	}
	password, err := a.ReadPassword(prompt)
	if err != nil {
		return "", model.Errorf(model.Invalid, "read password: %w", err)
	}
	return password, nil
}

// newPassword is one that is set: what is typed is typed twice.
func (a *app) newPassword(prompt, file string) (string, error) {
	if file != "" {
		password, err := a.passwordFile(file)
		if err == nil && password == "" {
			err = model.Errorf(model.Invalid, "password file %s is empty", file)
		}
		return password, err
	}
	password, err := a.askPassword(prompt, "--password-file")
	if err != nil || password == "" {
		return "", err
	}
	again, err := a.askPassword("Once more: ", "--password-file")
	if err == nil && again != password {
		err = model.Errorf(model.Invalid, "these are two different passwords").WithHint("nothing was changed: type the command again")
	}
	return password, err
}

func (a *app) authPassword() *cobra.Command {
	var file, oldFile string
	c := &cobra.Command{
		Use: "password", Short: "Change your own password", Args: cobra.NoArgs,
		Long:    "Asks for the old password and twice for the new one. Your other sessions end; tokens of programs\nstay. Forgotten? On the server's machine: muster auth reset-password.",
		Example: "  muster auth password",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.connect()
			if err != nil {
				return err
			}
			var r v1.PasswordChange
			if file == "-" && oldFile == "-" {
				return model.Errorf(model.Invalid, "both passwords cannot come from standard input").WithHint("name a file for one of them")
			}
			if oldFile != "" {
				r.Old, err = a.passwordFile(oldFile)
			} else {
				r.Old, err = a.askPassword("Old password: ", "--old-password-file")
			}
			if err != nil {
				return err
			}
			if r.New, err = a.newPassword("New password: ", file); err != nil {
				return err
			}
			if r.New == "" {
				return model.Errorf(model.Invalid, "the new password is empty").WithHint("nothing was changed")
			}
			if err := api.Access.ChangePassword(c.Context(), r); err != nil {
				return err
			}
			fmt.Fprintln(a.Stdout, "password changed; your other sessions ended")
			return nil
		},
	}
	c.Flags().StringVar(&file, "password-file", "", "file with the new password; - for standard input. Default: ask")
	c.Flags().StringVar(&oldFile, "old-password-file", "", "file with the old password; - for standard input. Default: ask")
	return c
}
