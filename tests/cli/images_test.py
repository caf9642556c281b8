"""Pictures are decoded as Pillow decodes them: images_test.py HIF8_CALIBRATE."""

import pathlib
import unittest

import numpy as np
from onnx_emit import Graph, model, node, value
from onnx_program import OnnxProgramCase, weight
from PIL import Image

HEIGHT, WIDTH = 23, 37  # no whole blocks of JPEG


def picture(channels):
    """Smooth, with some noise: uint8 [HEIGHT, WIDTH, channels]."""
    y, x, c = np.meshgrid(np.arange(HEIGHT), np.arange(WIDTH), np.arange(channels), indexing="ij")
    wave = 120 + 100 * np.sin(x / 7 + c) * np.cos(y / 5 - c)
    return np.clip(wave + np.random.default_rng(3).integers(-8, 8, wave.shape), 0, 255).astype("u1")


def files():
    """Name of a file that was written, and the image that it is."""
    rgb, gray = Image.fromarray(picture(3)), Image.fromarray(picture(1)[..., 0])
    palette = rgb.quantize(50)
    alpha = Image.fromarray(picture(4), "RGBA")
    deep = Image.fromarray(picture(1)[..., 0].astype("u2") * 257)
    for name, image, options in (
        ("a.jpg", rgb, {"quality": 80}), ("progressive.jpg", rgb, {"quality": 70, "progressive": True}),
        ("full.jpg", rgb, {"quality": 95, "subsampling": 0}), ("gray.jpg", gray, {}), ("inks.jpg", rgb.convert("CMYK"), {}),
        ("a.png", rgb, {}), ("palette.png", palette, {}), ("alpha.png", alpha, {}), ("gray.png", gray, {}), ("bits.png", gray.convert("1"), {}),
        ("deep.png", deep, {}), ("a.bmp", rgb, {}), ("palette.bmp", palette, {}),
    ):  # fmt: skip
        image.save(name, **options)
        with Image.open(name) as read:
            yield name, (gray if image is deep else read).convert("RGB")


class ImagesTest(OnnxProgramCase):
    def activation(self, source, channels, *args):
        inputs = [value("x", [1, channels, HEIGHT, WIDTH])]
        graph = Graph(inputs, [value("y", None)], [node("Conv", "x w", "y", "conv")], {"w": weight(2, channels, 3, 3)})
        report = self.quantize(model(graph), *args, source=source)
        return report["layers"][0]["activation"]

    def test_pixels_are_those_of_another_decoder(self):
        for name, image in files():
            with self.subTest(name):
                pixels = np.asarray(image, "f4").transpose(2, 0, 1)[None] / np.float32(255)
                np.save("x.npy", pixels)
                expected, found = self.activation("x.npy", 3), self.activation(name, 3)
                if name != "inks.jpg":
                    self.assertEqual(found["exponents_before"], expected["exponents_before"])
                self.assertAlmostEqual(found["amax"], expected["amax"], delta=1.01 / 255 if name == "inks.jpg" else 1e-7)

    def test_gray(self):
        image = Image.fromarray(picture(3))
        image.save("a.png")
        np.save("x.npy", np.asarray(image.convert("L"), "f4")[None, None] / np.float32(255))
        expected, found = self.activation("x.npy", 1), self.activation("a.png", 1, "--image-channels", "gray")
        self.assertAlmostEqual(found["amax"], expected["amax"], delta=1.01 / 255)

    def test_what_is_cut_off_is_an_error(self):
        for name, _ in files():
            whole = pathlib.Path(name).read_bytes()
            pathlib.Path(name).write_bytes(whole[: len(whole) * 2 // 3])
            with self.subTest(name):
                done = self.run_program("m.onnx" if pathlib.Path("m.onnx").exists() else self.model(), "--data", name, "-o", "out",
                                        "--force", code=3, says=["the image cannot be decoded", name])  # fmt: skip
                self.assertIn("save the image again", done.stderr)

    def model(self):
        graph = Graph([value("x", [1, 3, HEIGHT, WIDTH])], [value("y", None)], [node("Conv", "x w", "y", "conv")], {"w": weight(2, 3, 3, 3)})
        pathlib.Path("m.onnx").write_bytes(model(graph))
        return "m.onnx"


if __name__ == "__main__":
    unittest.main(argv=["images_test"])
