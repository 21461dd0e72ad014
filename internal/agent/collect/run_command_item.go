package collect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/item"
)

// runCommand collects the item system.run[COMMAND,wait], the output of a shell command.
func runCommand(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	command := k.Parameter(0, "")
	if command == "" {
		return item.Value{}, fmt.Errorf("%s: the command is missing; write %s[COMMAND]", k.Name, k.Name)
	}
	if k.Parameter(1, "wait") != "wait" {
		return item.Value{}, errUnknownMode(k, 1, "wait")
	}
	output, err := m.run(ctx, command)
	if err != nil {
		return item.Value{}, fmt.Errorf("%s: %w", k.Name, err)
	}
	return item.FromText(strings.TrimRight(output, " \t\r\n")), nil
}

// errEntityCommand is the reason why a discovered item does not run its command: a user of the machine may choose the name of an entity, such
// as a file.
var errEntityCommand = errors.New("system.run: a macro of the entity has a character that the shell could read as a command: only letters, digits and . _ : / @ % + = , - are allowed")

// errEntitySecret is the reason why a discovered item with a secret macro is not collected: the name of the entity could be a macro, too.
var errEntitySecret = errors.New("the key has a secret macro, and a macro of the entity has a character besides letters, digits and . _ : / @ % + = , -: such an entity gets no secret")
