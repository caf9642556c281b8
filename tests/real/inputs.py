"""Real inputs as .npy files, made without any code of the project: photographs and speech of Debian's packages."""

import pathlib
import wave

import numpy as np
from PIL import Image

PHOTOS = pathlib.Path("/usr/share/doc/opencv-doc/examples/data")
SPEECH = pathlib.Path("/usr/share/sounds/alsa")


def photos(folder, height, width, count, skip=0):
    """count photographs as [1, 3, height, width], BGR, from -1 to 1."""
    folder.mkdir(parents=True)
    files = sorted(PHOTOS.glob("*.jpg"))[skip : skip + count]
    assert len(files) == count, f"{PHOTOS} has {len(files)} of {count} photographs; install opencv-doc"
    for file in files:
        image = Image.open(file).convert("RGB").resize((width, height), Image.BILINEAR)
        bgr = np.asarray(image, dtype=np.float32)[:, :, ::-1] / np.float32(127.5) - np.float32(1)
        np.save(folder / f"{file.stem}.npy", np.ascontiguousarray(bgr.transpose(2, 0, 1)[None]))


def speech(folder):
    """Every recording as [1, samples] at 16 kHz, in units of a 16-bit sample, as openWakeWord takes it."""
    folder.mkdir(parents=True)
    files = sorted(SPEECH.glob("*.wav"))
    assert files, f"{SPEECH} has no recordings; install alsa-utils"
    for file in files:
        with wave.open(str(file)) as sound:
            assert sound.getframerate() == 48000 and sound.getsampwidth() == 2, file
            samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2")
            samples = samples.reshape(-1, sound.getnchannels())[:, 0]
        thirds = samples[: len(samples) // 3 * 3].reshape(-1, 3)
        np.save(folder / f"{file.stem}.npy", thirds.mean(axis=1, dtype=np.float32)[None])


def mel_windows(mel_folder, folder, frames=76, step=40):
    """Spectrograms [time, 1, n, 32] of the mel network as windows [1, frames, 32, 1] for the embedding network."""
    folder.mkdir(parents=True)
    for file in sorted(mel_folder.glob("*.npy")):
        mel = np.load(file).reshape(-1, 32) / np.float32(10) + np.float32(2)
        for start in range(0, len(mel) - frames + 1, step):
            window = mel[start : start + frames].reshape(1, frames, 32, 1)
            np.save(folder / f"{file.stem}_{start}.npy", np.ascontiguousarray(window))
