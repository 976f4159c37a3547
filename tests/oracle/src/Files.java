import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;

/**
 * Files of this machine. A snapshot is made by renaming a file, which on a file system replaces what another process made
 * after the look whether it is there; catalogs have a lock for that. Here a hard link stands for it: it is never made twice.
 */
final class Files extends LocalFileIO {
    @Override
    public boolean rename(Path from, Path to) throws IOException {
        java.nio.file.Path source = toFile(from).toPath(), target = toFile(to).toPath();
        if (!java.nio.file.Files.isRegularFile(source)) return super.rename(from, to);
        try {
            java.nio.file.Files.createDirectories(target.getParent());
            java.nio.file.Files.createLink(target, source);
        } catch (FileAlreadyExistsException | NoSuchFileException e) {
            return false;
        }
        java.nio.file.Files.delete(source);
        return true;
    }
}
