package house

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

//go:generate go test . -run TestThirdPartyLicensesAreComplete -update

const licences = "../../THIRD_PARTY_LICENSES"

// permissive matches the licences that may stand beside Apache-2.0 in one binary: Apache, BSD, ISC, MIT, MPL, public domain.
var permissive = regexp.MustCompile(`(?i)Apache License,? Version 2\.0|Redistribution and use in source and binary forms|Permission to use, copy, modify,? and(/or)? distribute this software|Permission is hereby granted, free of charge|Mozilla Public License|released into the public domain|dedicates? .* to the public domain`)

// TestThirdPartyLicensesAreComplete compares THIRD_PARTY_LICENSES with the licences of all linked modules, and expects
// permissive licences. It reads the modules of each binary on each platform.
func TestThirdPartyLicensesAreComplete(t *testing.T) {
	var page bytes.Buffer
	page.WriteString("What the binaries of Muster carry of others, and under which licences. Written by: go generate ./internal/house\n" +
		"The standard library of Go stands under the licence of golang.org/x/sys.\n")
	folders := linkedModules(t)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		texts, allowed := map[string]bool{}, false
		fmt.Fprintf(&page, "\n%s\n%s\n", strings.Repeat("=", 80), name)
		for _, file := range licenceFiles(t, folders[name]) {
			text, err := os.ReadFile(file)
			testenv.NoError(t, err)
			plain := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
			if !texts[plain] {
				texts[plain] = true
				words := strings.Join(strings.Fields(plain), " ")
				allowed = allowed || permissive.MatchString(words)
				if strings.HasPrefix(words, "GNU ") {
					t.Errorf("%s: %s is a licence of GNU, the binaries stand under Apache-2.0", name, file)
				}
				fmt.Fprintf(&page, "\n--- %s\n\n%s\n", filepath.Base(file), plain)
			}
		}
		if !allowed {
			t.Errorf("%s has no permissive licence in its folder, only %d other texts", name, len(texts))
		}
	}
	testenv.Golden(t, licences, page.Bytes())
}

// linkedModules returns the modules in the binaries by name and version. Each has the folders of its linked packages
// and their parents, up to the module's own folder.
func linkedModules(t *testing.T) map[string]map[string]bool {
	t.Helper()
	modules := map[string]map[string]bool{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", "./cmd/muster", "./cmd/muster-agent")
		list.Dir = "../.."
		list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 3 {
				continue // the standard library, ours
			}
			if modules[f[0]] == nil {
				modules[f[0]] = map[string]bool{}
			}
			for dir := f[2]; strings.HasPrefix(dir, f[1]); dir = filepath.Dir(dir) {
				modules[f[0]][dir] = true
			}
		}
	}
	if len(modules) < 30 {
		t.Fatalf("only %d modules are linked", len(modules))
	}
	return modules
}

// licenceFiles returns the licence texts and notices in the folders.
func licenceFiles(t *testing.T, folders map[string]bool) (files []string) {
	t.Helper()
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(dir)
		testenv.NoError(t, err)
		for _, e := range entries {
			name := strings.ToUpper(e.Name())
			for _, word := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE"} {
				if e.Type().IsRegular() && strings.Contains(name, word) && !strings.HasSuffix(name, ".GO") {
					files = append(files, filepath.Join(dir, e.Name()))
					break
				}
			}
		}
	}
	return files
}
