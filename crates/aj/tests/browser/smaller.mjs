// PNG files as small as they get with 256 colours: the browser packs them in haste.

import { readFileSync, writeFileSync } from "node:fs";
import { deflateSync, inflateSync } from "node:zlib";

/** Packs the picture in a file again. */
export function smaller(path) {
  const file = readFileSync(path);
  const chunks = [];
  for (let at = 8; at < file.length;) {
    const length = file.readUInt32BE(at);
    const kind = file.toString("latin1", at + 4, at + 8);
    chunks.push({ kind, data: file.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  const header = chunks.find(({ kind }) => kind === "IHDR").data;
  const pixels = inflateSync(Buffer.concat(chunks.filter(({ kind }) => kind === "IDAT").map(({ data }) => data)));
  const body = indexed(header, pixels) ?? { header, extra: [], pixels };
  const packed = deflateSync(body.pixels, { level: 9, memLevel: 9 });
  const written = [file.subarray(0, 8), chunk("IHDR", body.header), ...body.extra, chunk("IDAT", packed), chunk("IEND", Buffer.alloc(0))];
  const result = Buffer.concat(written);
  if (result.length < file.length) writeFileSync(path, result);
}

/** The same pixels by their number in a palette. */
function indexed(header, pixels) {
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const [depth, kind] = [header[8], header[9]];
  if (depth !== 8 || (kind !== 2 && kind !== 6)) return null;
  const bytes = kind === 2 ? 3 : 4;
  const rows = unfilter(pixels, width * bytes, height, bytes);
  // Every row begins with the number of its filter: none.
  const numbers = Buffer.alloc((width + 1) * height);
  const near = nearest(rows, bytes);
  for (let at = 0, pixel = 0; at < numbers.length; at += 1) {
    if (at % (width + 1) === 0) continue;
    numbers[at] = near.number(rows.readUIntBE(pixel * bytes, 3));
    pixel += 1;
  }
  const palette = Buffer.alloc(near.palette.length * 3);
  near.palette.forEach((color, at) => palette.writeUIntBE(color, at * 3, 3));
  const small = Buffer.from(header);
  small[9] = 3;
  return { header: small, extra: [chunk("PLTE", palette)], pixels: numbers };
}

/** 256 colours that matter, and for every other the nearest of them. */
function nearest(rows, bytes) {
  const seen = new Map();
  for (let at = 0; at < rows.length; at += bytes) {
    const color = rows.readUIntBE(at, 3);
    seen.set(color, (seen.get(color) ?? 0) + 1);
  }
  const colors = [...seen.keys()].sort((a, b) => seen.get(b) - seen.get(a));
  // A hue that is rare is still a hue: the first of every kind goes before the rest.
  const kind = (color) => color & 0xe0e0e0;
  const kinds = new Map();
  for (const color of colors) if (!kinds.has(kind(color))) kinds.set(kind(color), color);
  const palette = [...new Set([...kinds.values(), ...colors])].slice(0, 256);
  const numbers = new Map(palette.map((color, at) => [color, at]));
  const parts = (color) => [color >> 16, (color >> 8) & 255, color & 255];
  const all = palette.map(parts);
  const number = (color) => {
    if (!numbers.has(color)) {
      const [red, green, blue] = parts(color);
      let best = 0;
      let least = Infinity;
      all.forEach(([r, g, b], at) => {
        const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
        if (distance < least) [best, least] = [at, distance];
      });
      numbers.set(color, best);
    }
    return numbers.get(color);
  };
  return { palette, number };
}

/** Undoes the filters of PNG, row by row. */
function unfilter(pixels, length, height, bytes) {
  const rows = Buffer.alloc(length * height);
  for (let y = 0; y < height; y += 1) {
    const kind = pixels[y * (length + 1)];
    for (let x = 0; x < length; x += 1) {
      const left = x >= bytes ? rows[y * length + x - bytes] : 0;
      const above = y > 0 ? rows[(y - 1) * length + x] : 0;
      const corner = x >= bytes && y > 0 ? rows[(y - 1) * length + x - bytes] : 0;
      const added = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][kind];
      rows[y * length + x] = pixels[y * (length + 1) + 1 + x] + added;
    }
  }
  return rows;
}

function paeth(left, above, corner) {
  const guess = left + above - corner;
  const [a, b, c] = [left, above, corner].map((one) => Math.abs(guess - one));
  return a <= b && a <= c ? left : b <= c ? above : corner;
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, "latin1"), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(checksum(body));
  return Buffer.concat([length, body, sum]);
}

/** CRC-32, as PNG wants it. */
function checksum(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  }
  return ~sum >>> 0;
}
