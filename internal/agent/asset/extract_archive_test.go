package asset

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// makeTar returns a tar file, packed by gzip if zipped.
func makeTar(t testing.TB, zipped bool, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	var out io.Writer = &b
	z := gzip.NewWriter(&b)
	if zipped {
		out = z
	}
	w := tar.NewWriter(out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeXGlobalHeader {
			if err := w.WriteHeader(&tar.Header{Typeflag: h.Typeflag, PAXRecords: map[string]string{"comment": "x"}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text := h.PAXRecords["text"] // the content of the file
		h.PAXRecords = nil
		if h.Size = int64(len(text)); h.Mode == 0 {
			h.Mode = 0o644
		}
		testenv.NoError(t, w.WriteHeader(&h))
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	testenv.NoError(t, w.Close())
	if zipped {
		testenv.NoError(t, z.Close())
	}
	return b.Bytes()
}

// fileHeader returns the tar header (entry with name and mode) of a regular file.
func fileHeader(name, text string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"text": text}}
}

// linkHeader returns the tar header (entry with name and target) of a symbolic or hard link.
func linkHeader(kind byte, name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: kind, Linkname: target}
}

// extractToTemp extracts an archive into a temporary folder, and fails the test if other files changed.
func extractToTemp(t testing.TB, data []byte, limits Limits) (dir string, err error) {
	t.Helper()
	outer := t.TempDir()
	dir = filepath.Join(outer, "in")
	testenv.NoError(t, os.Mkdir(dir, 0o755))
	root, err := os.OpenRoot(dir)
	testenv.NoError(t, err)
	defer root.Close()
	n, err := Extract(root, bytes.NewReader(data), int64(len(data)), limits)
	if list, _ := os.ReadDir(outer); len(list) != 1 {
		t.Fatalf("something lies beside the folder: %v", list)
	}
	if most := max(limits.Free, limits.Ratio*int64(len(data))); n > most+1 {
		t.Fatalf("%d bytes were written, at most %d may be", n, most)
	}
	return dir, err
}

// TestExtractWritesFilesWithSafeModes extracts tar files and expects files without setuid bits and links inside the
// folder.
func TestExtractWritesFilesWithSafeModes(t *testing.T) {
	program := fileHeader("./bin/check", "#!/bin/sh\n")
	program.Mode = 0o4777 // setuid, and writable for everybody
	for name, data := range map[string][]byte{
		"tar": makeTar(t, false, program, fileHeader("lib/x.so", "x"), linkHeader(tar.TypeSymlink, "bin/same", "check"), linkHeader(tar.TypeLink, "bin/hard", "bin/check")),
		"tar.gz": makeTar(t, true, tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o700}, program, fileHeader("lib/x.so", "x"), linkHeader(tar.TypeSymlink, "bin/same", "../bin/check"),
			linkHeader(tar.TypeLink, "bin/hard", "./bin/check")),
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := extractToTemp(t, data, DefaultLimits())
			testenv.NoError(t, err)
			for _, p := range []string{"bin/check", "bin/same", "bin/hard"} {
				info, err := os.Stat(filepath.Join(dir, p))
				if err != nil || info.Mode() != 0o755 || info.Size() != 10 {
					t.Errorf("%s: %v %v", p, info, err)
				}
			}
			if info, err := os.Stat(filepath.Join(dir, "lib/x.so")); err != nil || info.Mode() != 0o644 {
				t.Errorf("lib/x.so: %v %v", info, err)
			}
			if info, err := os.Stat(filepath.Join(dir, "bin")); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("bin: %v %v", info, err)
			}
		})
	}
}

// makeZip returns a zip file that contains one file
func makeZip(t testing.TB, mode fs.FileMode, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: name, Method: zip.Deflate}
	h.SetMode(mode)
	f, err := w.CreateHeader(h)
	testenv.NoError(t, err)
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	testenv.NoError(t, w.Close())
	return b.Bytes()
}

// TestExtractUnpacksZipFiles extracts a zip file and expects its program with execute permission.
func TestExtractUnpacksZipFiles(t *testing.T) {
	dir, err := extractToTemp(t, makeZip(t, 0o755, "bin/check", "x"), DefaultLimits())
	testenv.NoError(t, err)
	if info, err := os.Stat(filepath.Join(dir, "bin/check")); err != nil || info.Mode() != 0o755 {
		t.Fatalf("%v %v", info, err)
	}
}

// makeLongZip returns a zip file with count empty files.
func makeLongZip(t testing.TB, count int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range count {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%0100d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	testenv.NoError(t, w.Close())
	return b.Bytes()
}

// smallLimits returns limits that the small archives of tests exceed.
func smallLimits() Limits { return Limits{Bytes: 1 << 20, Free: 100, Ratio: 2, Files: 10} }

// TestInvalidArchivesAreRefused extracts invalid or too large archives, and expects an error with the reason. Links
// out of the folder are refused, too.
func TestInvalidArchivesAreRefused(t *testing.T) {
	many := []tar.Header{}
	for _, c := range "abcdefghijk" {
		many = append(many, fileHeader(string(c), ""))
	}
	heads := []tar.Header{}
	for range 11 {
		heads = append(heads, tar.Header{Typeflag: tar.TypeXGlobalHeader})
	}
	const out = "outside the archive's folder"
	for name, x := range map[string]struct {
		data []byte
		says string
	}{
		"nothing":               {nil, "the file is empty, or not an archive"},
		"no archive":            {[]byte("hello, this is a text and no archive at all"), "incomplete or invalid archive"},
		"cut":                   {makeTar(t, false, fileHeader("a", strings.Repeat("x", 90)))[:520], "unexpected EOF"},
		"xz":                    {[]byte("\xfd7zXZ\x00...."), "use gzip"},
		"absolute":              {makeTar(t, true, fileHeader("/etc/passwd", "x")), out},
		"up":                    {makeTar(t, true, fileHeader("../x", "x")), out},
		"up within":             {makeTar(t, true, fileHeader("a/../../x", "x")), out},
		"up and down":           {makeTar(t, true, fileHeader("a/../b", "x")), out},
		"folder up":             {makeTar(t, true, tar.Header{Name: "../x/", Typeflag: tar.TypeDir}), out},
		"zip up":                {makeZip(t, 0o644, "../x", "x"), out},
		"zip backslash":         {makeZip(t, 0o644, `..\x`, "x"), "has forbidden characters"},
		"zip link":              {makeZip(t, 0o777|fs.ModeSymlink, "x", "/etc/passwd"), out},
		"zip pipe":              {makeZip(t, 0o644|fs.ModeNamedPipe, "x", ""), "device"},
		"link absolute":         {makeTar(t, true, linkHeader(tar.TypeSymlink, "x", "/etc/passwd")), out},
		"link up":               {makeTar(t, true, linkHeader(tar.TypeSymlink, "a/x", "../../x")), out},
		"link through link":     {makeTar(t, true, linkHeader(tar.TypeSymlink, "a/b/c", ".."), linkHeader(tar.TypeSymlink, "x", "a/b/c/../../.."), fileHeader("y", "")), out},
		"circle":                {makeTar(t, true, linkHeader(tar.TypeSymlink, "a", "b"), linkHeader(tar.TypeSymlink, "b", "a")), "or a loop"},
		"through a link":        {makeTar(t, true, linkHeader(tar.TypeSymlink, "a", "b"), fileHeader("a/x", "x")), "twice"},
		"file over link":        {makeTar(t, true, linkHeader(tar.TypeSymlink, "a", "b"), fileHeader("a", "x")), "twice"},
		"hard link up":          {makeTar(t, true, linkHeader(tar.TypeLink, "a", "../../etc/passwd")), out},
		"hard link to link":     {makeTar(t, true, linkHeader(tar.TypeSymlink, "a", "b"), linkHeader(tar.TypeLink, "c", "a")), "not an earlier file"},
		"hard link to no file":  {makeTar(t, true, linkHeader(tar.TypeLink, "a", "b")), "not an earlier file"},
		"twice":                 {makeTar(t, true, fileHeader("a", "x"), fileHeader("a", "y")), "twice"},
		"device":                {makeTar(t, true, tar.Header{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1}), "device"},
		"pipe":                  {makeTar(t, true, tar.Header{Name: "a", Typeflag: tar.TypeFifo}), "device"},
		"long name":             {makeTar(t, true, fileHeader(strings.Repeat("a/", 400)+"x", "x")), "too long"},
		"long part":             {makeTar(t, true, fileHeader(strings.Repeat("\xef", 256), "x")), "too long"},
		"endless headers":       {makeTar(t, true, heads...), "more than 10 headers"},
		"endless list":          {makeLongZip(t, 2000), "list of files that is too long"},
		"too many zipped":       {makeLongZip(t, 11), "more than 10 files"},
		"too many":              {makeTar(t, true, many...), "more than 10 files"},
		"too many folders":      {makeTar(t, true, fileHeader("a/b/c/d/e/f/g/h/i/j/k/l", "")), "more than 10 folders"},
		"bomb":                  {makeTar(t, true, fileHeader("a", strings.Repeat("\x00", 1<<20))), "the archive is too large"},
		"bomb of several files": {makeTar(t, true, fileHeader("a", strings.Repeat("\x00", 1<<14)), fileHeader("b", strings.Repeat("\x00", 1<<14))), "the archive is too large"},
		"zip bomb":              {makeZip(t, 0o644, "a", strings.Repeat("\x00", 1<<20)), "the archive is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := extractToTemp(t, x.data, smallLimits()); err == nil || !strings.Contains(err.Error(), x.says) {
				t.Fatalf("got %v, want: %s", err, x.says)
			}
		})
	}
}

// FuzzExtract extracts random archives, and fails if a file lies outside the target folder. Exceeded limits are
// failures, too.
func FuzzExtract(f *testing.F) {
	f.Add(makeTar(f, false, fileHeader("bin/a", "x"), linkHeader(tar.TypeSymlink, "b", "bin/a"), linkHeader(tar.TypeLink, "c", "bin/a")))
	f.Add(makeTar(f, false, linkHeader(tar.TypeSymlink, "a/b", ".."), linkHeader(tar.TypeSymlink, "x", "a/b/.."), fileHeader("../y", "")))
	f.Add(makeTar(f, true, fileHeader("bin/a", "x")))
	f.Add(makeTar(f, false, fileHeader("b\xefn/a", "x"), linkHeader(tar.TypeSymlink, "b", "b\xefn/a")))
	f.Add(makeTar(f, true, fileHeader("a", strings.Repeat("\x00", 1<<16))))
	f.Add(makeTar(f, false, linkHeader(tar.TypeSymlink, "a", "b"), linkHeader(tar.TypeSymlink, "b", "a"), fileHeader("c/\xff\xfe", "x"), linkHeader(tar.TypeLink, "d", "c/\xff\xfe")))
	f.Add(makeTar(f, false, tar.Header{Typeflag: tar.TypeXGlobalHeader}, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, fileHeader("d", "x")))
	f.Add(makeTar(f, false, tar.Header{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1}))
	f.Add(makeTar(f, false, fileHeader("a", strings.Repeat("x", 90)))[:520])
	f.Add([]byte("BZh91AY&SY"))
	f.Add(makeLongZip(f, 3))
	f.Add(makeZip(f, 0o755, "bin/a", "x"))
	f.Add(makeZip(f, 0o777|fs.ModeSymlink, "a", "../b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir, err := extractToTemp(t, data, smallLimits())
		if err != nil {
			return
		}
		root, err := os.OpenRoot(dir)
		testenv.NoError(t, err)
		defer root.Close()
		// Not root.FS(): an archive may hold names that are not UTF-8, which fs.FS refuses.
		err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			at, _ = filepath.Rel(dir, at)
			switch d.Type() {
			case 0, fs.ModeDir:
			case fs.ModeSymlink:
				if _, err := root.Stat(at); err != nil && !os.IsNotExist(err) {
					t.Fatalf("%s leads out: %v", at, err)
				}
			default:
				t.Fatalf("%s is a %v", at, d.Type())
			}
			return nil
		})
		testenv.NoError(t, err)
	})
}
