package secret

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/outbound"
)

const (
	// answerLife is the time for which a value or an error that was read serves later requests.
	answerLife = 5 * time.Second
	// readTimeout bounds the duration of one read of a value.
	readTimeout = 10 * time.Second
)

// Options holds the dependencies of a Resolver, such as the functions that read files and environment
// variables. With these functions it reads declared Secrets, files and environment variables.
type Options struct {
	// Secret returns the declaration of a Secret; false: none exists.
	Secret   func(namespace, name string) (*model.SecretSpec, bool)
	Getenv   func(string) (string, bool)                        // default os.LookupEnv
	ReadFile func(path string) ([]byte, error)                  // default: a bounded read of the file
	Client   func(ca string) (client *http.Client, err error)   // for Vault, with that CA; default: one with the system's proxies
	Outbound *outbound.Policy                                   // bounds the addresses of Vault; nil: none
	After    func(d time.Duration, f func()) (stop func() bool) // default time.AfterFunc
}

// Value is the value of a Secret, with the time for which agents may cache the value.
type Value struct {
	Text  string
	Lease time.Duration // time for which an agent may keep the value
}

// Resolver reads and caches the values of Secrets from their sources. Safe for concurrent use.
type Resolver struct {
	o Options

	mu      sync.Mutex
	answers map[string]*cachedAnswer // by the encoded source of the value (file, variable, Vault path), not by the Secret's name
}

// cachedAnswer caches the outcome of one read of a secret's source, a value or an error. Its channel done is
// closed when the read has ended.
type cachedAnswer struct {
	done  chan struct{}
	value Value
	err   error
}

// New returns a Resolver, which reads the values of Secrets.
func New(o Options) *Resolver {
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = readFile
	}
	if o.Client == nil {
		o.Client = (&clientCache{readFile: o.ReadFile, outbound: o.Outbound}).get
	}
	if o.After == nil {
		o.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	return &Resolver{o: o, answers: map[string]*cachedAnswer{}}
}

// Resolve returns the value of a Secret, from the cache or its source. The error is for people.
func (r *Resolver) Resolve(ctx context.Context, namespace, name string) (Value, error) {
	spec, ok := r.o.Secret(namespace, name)
	if !ok {
		return Value{}, fmt.Errorf("Secret %s/%s does not exist", namespace, name)
	}
	if !spec.OnServer() {
		return Value{}, errors.New("the value of the Secret is on the node, but the agent does not have that change yet")
	}
	where, err := json.Marshal(spec)
	if err != nil {
		return Value{}, err
	}
	r.mu.Lock()
	a := r.answers[string(where)]
	if a == nil {
		a = &cachedAnswer{done: make(chan struct{})}
		r.answers[string(where)] = a
		go r.fillAnswer(a, spec, string(where)) // the read outlives the first caller, because other callers wait for its result
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return Value{}, errors.New("reading the value took too long")
	}
}

// fillAnswer reads a secret's value from its source, and stores the value or error in a cache entry.
func (r *Resolver) fillAnswer(a *cachedAnswer, spec *model.SecretSpec, where string) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	if a.value, a.err = r.readValue(ctx, spec); a.err == nil {
		a.err = model.CheckSecretValue(a.value.Text)
	}
	if a.err != nil {
		a.value = Value{}
	}
	close(a.done)
	r.o.After(answerLife, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.answers, where)
	})
}

// readValue reads a secret's value from the environment, a file or Vault.
func (r *Resolver) readValue(ctx context.Context, spec *model.SecretSpec) (Value, error) {
	v := Value{Lease: cmp.Or(time.Duration(spec.Lease), model.DefaultSecretLease)}
	switch {
	case spec.Env != "":
		text, ok := r.o.Getenv(spec.Env)
		if !ok {
			return v, fmt.Errorf("the server's environment has no variable %s: set it where the service is declared and restart the server, or keep the secret in a file", spec.Env)
		}
		v.Text = text
	case spec.File != "":
		data, err := r.o.ReadFile(spec.File)
		if err != nil {
			return v, fmt.Errorf("read the secret's file on the server: %w", err)
		}
		v.Text = model.SecretOfFile(data)
	case spec.Vault != nil:
		return r.readVault(ctx, spec.Vault, v.Lease)
	default:
		return v, errors.New("the Secret has no source of its value: another version of Muster wrote it")
	}
	return v, nil
}

// readFile reads a CA or secret file of at most 256 KiB.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 256<<10)) // a CA bundle fits; longer than a secret may be
}
