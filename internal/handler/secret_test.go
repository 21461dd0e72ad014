package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What went wrong is kept where everybody may read it: not the address, whose path may
// be a secret.
func TestErrorsOfAWebhookHoldNoSecret(t *testing.T) {
	for _, url := range []string{
		"http://127.0.0.1:1/services/s3cret", "http://ann:s3cret@127.0.0.1:1/", "http://127.0.0.1:1/?key=s3cret", "http://[::1/s3cret", "http://127.0.0.1:s3cret/",
	} {
		err := send(t.Context(), &model.HandlerSpec{Webhook: &model.Webhook{URL: url, Headers: map[string]string{"Authorization": "s3cret"}}}, message("k", "{}"))
		if err == nil || strings.Contains(err.Error(), "/services") || strings.Contains(err.Error(), "s3cret@") || strings.Contains(err.Error(), "key=") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A handler's command is told nothing of the server's own settings.
func TestHandlersDoNotInheritSettings(t *testing.T) {
	t.Setenv("MUSTER_INTENT_DB", "postgres://muster:s3cret@db/muster")
	t.Setenv("LANG", "C.UTF-8")
	env := environment([]string{"MUSTER_INTENT_DB=x", "LANG=C", "MUSTER_IDEMPOTENCY_KEY=forged"}, map[string]string{"A": "b"}, "key")
	if want := []string{"LANG=C", "A=b", "MUSTER_IDEMPOTENCY_KEY=key"}; !slices.Equal(env, want) {
		t.Errorf("got %v, want %v", env, want)
	}
	spec := &model.HandlerSpec{Command: &model.Command{Shell: `test -z "$MUSTER_INTENT_DB" && test "$LANG" = C.UTF-8 && test "$MUSTER_IDEMPOTENCY_KEY" = k1 && test "$A" = b`}, Env: map[string]string{"A": "b"}}
	if err := send(t.Context(), spec, message("k1", "{}")); err != nil {
		t.Error(err)
	}
}
