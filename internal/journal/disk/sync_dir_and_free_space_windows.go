package disk

import "golang.org/x/sys/windows"

// processEnded always returns false on Windows, where a child process never keeps its parent's lock. Child
// processes share no lockGroup there.
func processEnded(int) bool { return false }

// syncDir does nothing on Windows, where new file names survive a crash without a sync. NTFS journals the names in
// folders.
func syncDir(string) error { return nil }

// free returns the number of free bytes on the disk that contains the folder.
func free(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var room uint64
	err = windows.GetDiskFreeSpaceEx(path, &room, nil, nil)
	return int64(room), err
}
