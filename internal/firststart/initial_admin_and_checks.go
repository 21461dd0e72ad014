// Package firststart makes what a new server needs before its first user: the administrator, the starter checks of
// `muster up`, and the context file by which the command line finds the server.
package firststart

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/offline"
)

//go:embed starter.yaml
var starter []byte

// CreateAdmin creates the user admin, with a given or generated password, on a server without users. It reads
// the password from a file, or generates and returns a password. Then it returns unused memory to the operating
// system.
func CreateAdmin(ctx context.Context, users *access.Service, passwordFile string) (password string, err error) {
	if users.HasUsers() {
		return "", nil
	}
	given := ""
	if passwordFile != "" {
		if given, err = offline.ReadPassword(passwordFile, os.Stdin); err != nil {
			return "", fmt.Errorf("read the file of --admin-password-file: %w", err)
		}
	}
	made, err := users.CreateUser(ctx, ServerActor("first start"), access.User{Name: "admin", Grants: access.Grants{Role: access.Admin, Run: true}}, given)
	// The hash of a password takes twice the memory of a new server, which would keep the memory for minutes.
	debug.FreeOSMemory()
	if err != nil || given != "" {
		return "", err
	}
	return made, nil
}

// ServerActor returns the server itself as the author of changes, for the audit log.
func ServerActor(reason string) intent.Actor {
	return intent.Actor{User: "server", Address: "local", Message: reason}
}

// ApplyDefaultChecks declares the default checks that the command muster up creates. It does so only on a
// server that has never had a check.
func ApplyDefaultChecks(ctx context.Context, service *intent.Service) error {
	changes, err := service.Store().Changes(ctx, 0, 1000)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Key.Kind == "Check" {
			return nil
		}
	}
	decoded, err := kind.All().Decode("starter.yaml", starter)
	if err != nil {
		return err
	}
	resources := make([]model.Resource, len(decoded))
	for i := range decoded {
		resources[i] = decoded[i].Resource
	}
	_, err = service.Apply(ctx, ServerActor("first start: applied the starter set of checks"), resources, intent.ApplyOptions{Yes: true})
	return err
}
