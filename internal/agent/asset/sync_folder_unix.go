//go:build unix

package asset

import "os"

// syncDir syncs the names of the files in a folder to the disk.
func syncDir(root *os.Root, at string) error {
	f, err := root.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
