package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
)

// command runs one with the notification on its standard input. Exit code 0 is taken;
// anything else is tried again.
func (o *Out) command(ctx context.Context, spec *model.HandlerSpec, m *Message, timeout time.Duration) (Receipt, error) {
	argv := argvOf(spec.Command)
	receipt := Receipt{Sent: fmt.Sprintf("%q, on its standard input:\n%s\n", argv, m.Payload)}
	if len(argv) == 0 {
		return receipt, &FinalError{errors.New("handler's command is an empty list")}
	}
	assets, done, err := o.assets(ctx, spec.Assets)
	if err != nil {
		return receipt, err
	}
	defer done()
	out := &tailBuffer{most: 512, hider: m.hider.NewText()}
	// One line, so that `cat >> file` and line readers work.
	stdin := io.MultiReader(bytes.NewReader(m.Payload), strings.NewReader("\n"))
	state, err := o.execute(ctx, withAssetPath(argv, assets), environment(os.Environ(), spec.Env, assets, m.Key), stdin, out, out, timeout)
	if state != nil {
		receipt.Answer = strings.TrimSpace(state.String() + "\n" + out.String())
	}
	return receipt, err
}

// execute runs a command until it ends, or ctx. state is nil if the command did not start.
func (o *Out) execute(ctx context.Context, argv, env []string, stdin io.Reader, stdout io.Writer, stderr *tailBuffer, timeout time.Duration) (state *os.ProcessState, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = stdin, stdout, stderr, env
	killAll(cmd)
	cmd.WaitDelay = time.Second // a child that holds the output open does not hold us
	if err = o.opts.Guard.Start(cmd); err == nil {
		err = cmd.Wait()
		o.opts.Guard.Release(cmd)
		state = cmd.ProcessState
	}
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil && cmd.ProcessState.Success():
		return state, nil
	case ctx.Err() != nil:
		return state, fmt.Errorf("command timed out after %s: %s", timeout, stderr)
	default:
		return state, fmt.Errorf("command: %w: %s", err, stderr)
	}
}

// environment returns the variables of a command: those that it inherits from the server (never the server's settings, which
// may hold passwords of databases), the handler's, and the variables of its assets.
func environment(base []string, own map[string]string, assets []model.AssetDir, key string) []string {
	env := make([]string, 0, len(base)+1)
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); inherits(name) {
			env = append(env, kv)
		}
	}
	return append(model.AssetEnvironment(env, own, assets), "MUSTER_IDEMPOTENCY_KEY="+key)
}

// tailBuffer keeps the last bytes of an output, however long it is.
type tailBuffer struct {
	buf   []byte
	most  int
	hider *hide.Hider // goes over it before anything is cut; nil: there are no secrets
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.add(p, false)
	return len(p), nil
}

func (t *tailBuffer) add(p []byte, last bool) {
	if t.hider != nil {
		p = t.hider.Next(p, last)
	}
	t.buf = append(t.buf, p[max(0, len(p)-t.most):]...)
	t.buf = t.buf[max(0, len(t.buf)-t.most):]
}

// String returns the kept end of the output. No write may follow.
func (t *tailBuffer) String() string {
	t.add(nil, true)
	return strings.TrimSpace(string(t.buf))
}
