package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// A command has what its assets bring for as long as it runs, whether it is written as a list or for the shell; while an
// asset is not here, the message waits.
func TestCommandAssets(t *testing.T) {
	dir, held := t.TempDir(), 0
	program := filepath.Join(dir, "bin", "tell")
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$1 $CHECK_PLUGINS_PATH $LD_LIBRARY_PATH $CPATH\"; cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var missing error
	out := New(Options{Assets: func(_ context.Context, names []string) ([]model.AssetDir, func(), error) {
		if fmt.Sprint(names) != "[team/check-plugins]" {
			t.Errorf("asked for %v", names)
		}
		if missing != nil {
			return nil, nil, missing
		}
		held++
		return []model.AssetDir{{Name: names[0], Dir: dir}}, func() { held-- }, nil
	}})
	defer out.Close()
	want := fmt.Sprintf("--now %[1]s %[1]s/lib:/opt/lib %[1]s/include", dir)
	for _, command := range []*model.Command{{Argv: []string{"tell", "--now"}}, {Argv: []string{program, "--now"}}, {Shell: "tell --now"}} {
		spec := &model.HandlerSpec{Command: command, Assets: []string{"check-plugins"}, Env: map[string]string{"LD_LIBRARY_PATH": "/opt/lib"}}
		spec.QualifyReferences("team")
		missing = nil
		if receipt, err := out.Send(t.Context(), spec, message("k", `{"version":1}`)); err != nil || !strings.Contains(receipt.Answer, strings.Replace(want, "/opt/lib", model.RedactedText, 1)+"\n{\"version\":1}") {
			t.Errorf("%v: %+v %v", command, receipt, err)
		}
		mutator := &model.MutatorSpec{Command: command, Assets: spec.Assets, Env: spec.Env}
		if got, _, err := out.Mutate(t.Context(), mutator, []byte("event")); err != nil || string(got) != want+"\nevent" {
			t.Errorf("%v: %q %v", command, got, err)
		}
		missing = errors.New("asset team/check-plugins is not here: no room")
		if _, err := out.Send(t.Context(), spec, message("k", `{"version":1}`)); !errors.Is(err, missing) || errors.As(err, new(*FinalError)) {
			t.Errorf("%v", err)
		}
		if _, _, err := out.Mutate(t.Context(), mutator, []byte("event")); !errors.Is(err, missing) || errors.As(err, new(*FinalError)) {
			t.Errorf("%v", err)
		}
	}
	if held != 0 {
		t.Errorf("%d are held although nothing runs", held)
	}
	spec := &model.HandlerSpec{Command: &model.Command{Argv: []string{"nothing-like-that"}}, Assets: []string{"team/check-plugins"}}
	missing = nil
	if _, err := out.Send(t.Context(), spec, message("k", "{}")); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v", err)
	}
}
