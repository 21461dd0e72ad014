package cli

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/model"
)

// loginCommand makes the command muster login.
func loginCommand(s *commandLine) *cobra.Command {
	var user, passwordFile string
	return s.buildCommand(command{
		use: "login [URL]", short: "Open a session and store it in the context file",
		args: cobra.MaximumNArgs(1), offline: true, noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVarP(&user, "user", "u", "admin", "your name")
			flags.StringVar(&passwordFile, "password-file", "", "file with the password; - for standard input. Default: a prompt")
		},
		run: func(c *commandCall) error {
			if len(c.args) == 1 {
				c.server = c.args[0]
			}
			target, err := c.clientContext()
			if err != nil {
				return err
			}
			target.Token = ""
			if target.CAFile != "" { // the context file must work in every folder
				pem, err := os.ReadFile(target.CAFile)
				if err != nil {
					return model.Errorf(model.Invalid, "read the CA file: %w", err).WithHint("check --ca or MUSTER_CA")
				}
				target.CA, target.CAFile = string(pem), ""
			}
			api, err := client.New(target)
			if err != nil {
				return err
			}
			if passwordFile == "" { // ask no password for a server out of reach
				if _, err := api.Version(c.ctx); err != nil && model.ClassOf(err) != model.Unauthenticated {
					return err
				}
			}
			password, err := c.readPassword("Password of "+user+": ", passwordFile, "--password-file")
			if err == nil && password == "" && passwordFile != "" {
				err = model.Errorf(model.Invalid, "the password is empty").WithHint("check %s. Forgotten? On the server: muster auth reset-password --data DIR", passwordFile)
			}
			if err != nil {
				return err
			}
			opened, err := api.Access.Login(c.ctx, user, password)
			if err != nil {
				return err
			}
			target.Server, target.Token, target.User = api.Server(), opened.Token, opened.User
			path, err := c.contextPath()
			if err != nil {
				return err
			}
			if earlier, err := client.LoadContext(path); err == nil && earlier.Server != "" && earlier.Server != target.Server {
				if _, err := client.BackUpContext(path, earlier); err != nil {
					return err
				}
				c.Notef(2, "the context of %s stays: muster context list", earlier.Server)
			}
			if err := client.SaveContext(path, target); err != nil {
				return err
			}
			c.Wrapf(2, "logged in at %s as %s until %s; the session is in %s", target.Server, opened.User, opened.Expires.In(c.Zone).Format("2006-01-02 15:04 MST"), path)
			return nil
		},
	})
}

// logoutCommand makes the command muster logout.
func logoutCommand(s *commandLine) *cobra.Command {
	return s.buildCommand(command{
		use: "logout", short: "End the session and remove it from the context file", args: cobra.NoArgs, offline: true, noFormat: true,
		run: func(c *commandCall) error {
			target, err := c.clientContext()
			if err != nil {
				return err
			}
			api, err := client.New(target)
			if err != nil {
				return err
			}
			if err := api.Access.Logout(c.ctx); err != nil && model.ClassOf(err) != model.Unauthenticated {
				return err
			}
			path, err := c.contextPath()
			if err != nil {
				return err
			}
			stored, err := client.LoadContext(path)
			if err == nil && stored.Token == target.Token {
				stored.Token, stored.User = "", ""
				err = client.SaveContext(path, stored)
			}
			if err == nil {
				c.Printf("logged out\n")
			}
			return err
		},
	})
}

// passwordCommand makes the command muster auth password.
func passwordCommand(s *commandLine) *cobra.Command {
	var file, oldFile string
	return s.buildCommand(command{
		use: "password", short: "Change your password", args: cobra.NoArgs, noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&file, "password-file", "", "file with the new password; - for standard input. Default: a prompt")
			flags.StringVar(&oldFile, "old-password-file", "", "file with the old password; - for standard input. Default: a prompt")
		},
		run: func(c *commandCall) (err error) {
			var r v1.PasswordChange
			if file == "-" && oldFile == "-" {
				return model.Errorf(model.Invalid, "only one password can come from standard input").WithHint("name a file for the other password")
			}
			if r.Old, err = c.readPassword("Old password: ", oldFile, "--old-password-file"); err != nil {
				return err
			}
			if r.New, err = c.readNewPassword("New password: ", file); err != nil {
				return err
			}
			if r.New == "" {
				return model.Errorf(model.Invalid, "the new password is empty").WithHint("nothing was changed")
			}
			if err := c.api.Access.ChangePassword(c.ctx, r); err != nil {
				return err
			}
			c.Printf("password changed; your other sessions ended\n")
			return nil
		},
	})
}

// readPassword reads a password from a file or the terminal. The file - is standard input. flag names the file.
func (s *commandLine) readPassword(prompt, file, flag string) (string, error) {
	var data []byte
	var err error
	switch {
	case file == "" && s.ReadPassword == nil:
		return "", model.Errorf(model.Invalid, "cannot ask for the password: no terminal").WithHint("use %s FILE, or - for standard input", flag)
	case file == "":
		password, err := s.ReadPassword(prompt)
		if err != nil {
			return "", model.Errorf(model.Invalid, "read the password: %w", err)
		}
		return password, nil
	case file == "-":
		data, err = io.ReadAll(io.LimitReader(s.Stdin, 4096))
	default:
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return "", model.Errorf(model.Invalid, "read the password: %w", err).WithHint("--password-file: expected a file, or - for standard input")
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// readNewPassword reads a new password from a file, or asks for the password twice.
func (s *commandLine) readNewPassword(prompt, file string) (string, error) {
	password, err := s.readPassword(prompt, file, "--password-file")
	switch {
	case err != nil:
		return "", err
	case password == "" && file != "":
		return "", model.Errorf(model.Invalid, "password file %s is empty", file)
	case password == "" || file != "":
		return password, nil
	}
	again, err := s.readPassword("Once more: ", "", "--password-file")
	if err == nil && again != password {
		err = model.Errorf(model.Invalid, "the two passwords differ").WithHint("nothing was changed: repeat the command")
	}
	return password, err
}
